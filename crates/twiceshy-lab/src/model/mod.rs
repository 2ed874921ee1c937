//! The formulas of the papers: numbers in, numbers out.
