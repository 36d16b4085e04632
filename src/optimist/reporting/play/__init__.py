"""A game watched: film strip, video, page to scrub through."""
