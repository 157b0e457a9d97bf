"""Two example spiders over recorded pages: a runway show and a street-style article."""
