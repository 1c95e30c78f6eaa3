"""Parts of a paper: values, tables, figures, claims and the manuscript."""
