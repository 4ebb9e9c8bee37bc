"""What was planned and measured, kept: rows are appended, never edited."""
