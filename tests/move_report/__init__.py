"""The report about a move: facts from the journal, sentences, pictures, the page."""
