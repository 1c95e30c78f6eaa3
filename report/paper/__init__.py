"""What a paper is made of: values, tables, figures, claims and the manuscript."""
