"""Virtual time: the loop that jumps to the next timer, processes whose callbacks it runs, and what these cost."""
