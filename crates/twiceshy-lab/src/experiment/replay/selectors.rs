//! A cyclic or varying filter (sections 3.1 and 3.2): its keys' selectors.

use super::{Collision, Row};

pub struct Selectors {
    /// Of each cell's key.
    selectors: Vec<u8>,
    functions: u8,
    /// Whether adapting avoids a function under which the query still collides.
    retry: bool,
}

impl Selectors {
    /// All of them are the first.
    pub fn new(cells: usize, functions: u32, retry: bool) -> Self {
        let functions = u8::try_from(functions).expect("32 at most");
        Selectors { selectors: vec![0; cells], functions, retry }
    }

    /// Whether a query collides with the keys of any of these cells, which then move on to another
    /// function.
    #[inline]
    pub fn ask(&mut self, rows: &[Row]) -> bool {
        let mut wrong = false;
        for &Collision { cell, under } in rows.iter().flat_map(|row| &row.0) {
            let selector = self.selectors[cell as usize];
            if under >> selector & 1 == 1 {
                self.selectors[cell as usize] = self.next(selector, under);
                wrong = true;
            }
        }
        wrong
    }

    /// The function after `selector`; with `retry`, the next one under which query and key differ,
    /// if there is one.
    fn next(&self, selector: u8, under: u32) -> u8 {
        let after = |selector| if selector + 1 == self.functions { 0 } else { selector + 1 };
        let mut next = after(selector);
        while self.retry && next != selector && under >> next & 1 == 1 {
            next = after(next);
        }
        // They differ under none of them.
        if next == selector { after(selector) } else { next }
    }
}
