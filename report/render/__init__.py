"""From a finished Quarto document to HTML, LaTeX, PDF and a Quarto project."""
