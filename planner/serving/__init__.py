"""From steps to what users wait for: TTFT, TPOT and throughput of many requests at once."""
