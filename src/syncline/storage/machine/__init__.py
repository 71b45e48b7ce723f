"""The Disk port on this machine: files, worker threads, and what the kernel does with pages."""
