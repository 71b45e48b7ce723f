"""The report about the page cache: facts from answers, advice, sentences, pictures, the page."""
