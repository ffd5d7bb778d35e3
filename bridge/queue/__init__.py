"""When a gang could run: ends of jobs, pins, estimates."""
