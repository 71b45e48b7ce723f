"""Whether the model of the page cache is true: predicted and measured hits of a broker with too little memory."""
