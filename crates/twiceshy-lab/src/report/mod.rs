//! Rows as plots, and plots as one page.
