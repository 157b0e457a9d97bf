"""Measure each context, beside what people use today where there is such a thing; `make bench` runs it."""
