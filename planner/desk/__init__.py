"""The work behind both doors, command line and service: plans kept, runs judged, sweeps run."""
