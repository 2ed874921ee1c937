//! Puts the mutants of a file behind switches.
//!
//! Each mutant becomes a branch that is taken when its number is on:
//!
//! ```text
//! a + b      (match ((a), (b)) { (l, r) => if on(7) { l - r } else if on(8) { l * r } else { l + r } })
//! a == b     the same with references
//! a && b     ({ let l = a; if l != on(9) { b } else { l } })         on: a || b
//! a += b     (match (b) { r => if on(7) { a -= r } else { a += r } })
//! !a         (match (a) { x => if on(5) { x } else { !x } })
//! { body }   { if on(3) { return value; } body }
//! p => e     p if !on(4) => e
//! p if g     p if (if on(1) { true } else if on(2) { false } else { g })
//! ```
//!
//! Operands keep their grouping, where the text that cargo-mutants writes may group them anew
//! (`a - b * c` becomes `a - (b + c)`, not `a - b + c`).

use std::collections::HashMap;
use std::ops::Range;

use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What cargo-mutants says of one mutant.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Counts from 1.
    pub id: u32,
    pub name: String,
    pub package: String,
    pub file: String,
    pub genre: String,
    pub replacement: String,
    /// Line and column, both from 1.
    pub start: (usize, usize),
}

/// A mutant's branch, or all of its switch, in the woven text.
pub struct Piece {
    pub at: Range<usize>,
    pub mutants: Vec<u32>,
}

/// A woven file.
pub struct Woven {
    pub text: String,
    /// Every branch, and every switch around branches.
    pub pieces: Vec<Piece>,
    /// The mutants that are in it.
    pub mutants: Vec<u32>,
}

enum Form {
    /// Before the first statement of a body.
    Body,
    Compared {
        left: Range<usize>,
        right: Range<usize>,
        op: String,
    },
    Computed {
        left: Range<usize>,
        right: Range<usize>,
        op: String,
    },
    Assigned {
        left: Range<usize>,
        right: Range<usize>,
        op: String,
    },
    /// `and`: `&&`, which becomes `||`.
    Lazy {
        left: Range<usize>,
        right: Range<usize>,
        and: bool,
    },
    Unary {
        operand: Range<usize>,
        op: String,
    },
    /// Behind the pattern of a match arm.
    Arm,
    Guard,
}

struct Site {
    at: Range<usize>,
    form: Form,
    /// Numbers and replacements.
    mutants: Vec<(u32, String)>,
}

/// Weaves these mutants into a file's text. Left out are those in constants, which cannot look at
/// a switch, those that would give a function with `impl` in its return type a second type, and
/// some that cannot compile (`let .. || ..`).
pub fn weave(text: &str, mutants: &[Mutant], path_of_probe: &str) -> Woven {
    let file = syn::parse_file(text).expect("the file parses");
    let mut finder =
        Finder { lines: line_starts(text), text, wanted: HashMap::new(), sites: Vec::new() };
    for mutant in mutants {
        finder.wanted.entry((mutant.start, genre(&mutant.genre))).or_default().push(mutant);
    }
    finder.visit_file(&file);
    let mut sites = finder.sites;
    sites.sort_by_key(|site| {
        let outermost_last = usize::MAX - site.at.end;
        (site.at.start, !site.at.is_empty(), outermost_last, !matches!(site.form, Form::Guard))
    });
    let woven = sites.iter().flat_map(|site| site.mutants.iter().map(|&(id, _)| id)).collect();
    let mut weaver = Weaver {
        text,
        sites: &sites,
        probe: path_of_probe,
        out: String::new(),
        pieces: Vec::new(),
    };
    weaver.copy(0..text.len(), 0);
    Woven { text: weaver.out, pieces: weaver.pieces, mutants: woven }
}

/// Operators and what is replaced as a whole may start at the same place.
fn genre(name: &str) -> &'static str {
    ["FnValue", "BinaryOperator", "UnaryOperator", "MatchArm", "MatchArmGuard"]
        .into_iter()
        .find(|&known| known == name)
        .unwrap_or("other")
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

struct Finder<'a> {
    text: &'a str,
    lines: Vec<usize>,
    wanted: HashMap<((usize, usize), &'static str), Vec<&'a Mutant>>,
    sites: Vec<Site>,
}

impl Finder<'_> {
    fn offset(&self, at: LineColumn) -> usize {
        let line = &self.text[self.lines[at.line - 1]..];
        self.lines[at.line - 1]
            + line.char_indices().nth(at.column).map_or(line.len(), |(byte, _)| byte)
    }

    fn range(&self, span: Span) -> Range<usize> {
        self.offset(span.start())..self.offset(span.end())
    }

    fn found(&mut self, start: Span, genre: &'static str, at: Range<usize>, form: Form) {
        let start = (start.start().line, start.start().column + 1);
        if let Some(mutants) = self.wanted.get(&(start, genre)) {
            let mutants =
                mutants.iter().map(|mutant| (mutant.id, mutant.replacement.clone())).collect();
            self.sites.push(Site { at, form, mutants });
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let returned = self.range(signature.output.span());
        let one_type = !self.text[returned].contains("impl ");
        if let Some(first) = block.stmts.first()
            && one_type
        {
            let at = self.offset(first.span().start());
            self.found(first.span(), "FnValue", at..at, Form::Body);
        }
    }
}

/// Whether `||` could not stand here.
fn binds(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() {
            self.body(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() {
            self.body(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        use syn::BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        let (left, right) = (self.range(binary.left.span()), self.range(binary.right.span()));
        let op = self.text[self.range(binary.op.span())].to_owned();
        let form = match binary.op {
            And(_) | Or(_) => Form::Lazy { left, right, and: op == "&&" },
            Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_) => Form::Compared { left, right, op },
            _ if op.ends_with('=') => Form::Assigned { left, right, op },
            _ => Form::Computed { left, right, op },
        };
        if !(matches!(form, Form::Lazy { .. }) && (binds(&binary.left) || binds(&binary.right))) {
            self.found(binary.op.span(), "BinaryOperator", self.range(binary.span()), form);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let op = self.text[self.range(unary.op.span())].to_owned();
        let form = Form::Unary { operand: self.range(unary.expr.span()), op };
        self.found(unary.op.span(), "UnaryOperator", self.range(unary.span()), form);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        let is_catchall =
            |arm: &syn::Arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none();
        for arm in &expr.arms {
            if let Some((_, guard)) = &arm.guard {
                self.found(guard.span(), "MatchArmGuard", self.range(guard.span()), Form::Guard);
            } else if expr.arms.iter().any(is_catchall) {
                let end = self.range(arm.pat.span()).end;
                self.found(arm.span(), "MatchArm", end..end, Form::Arm);
            }
        }
        visit::visit_expr_match(self, expr);
    }
}

struct Weaver<'a> {
    text: &'a str,
    sites: &'a [Site],
    probe: &'a str,
    out: String,
    pieces: Vec<Piece>,
}

impl Weaver<'_> {
    /// Copies this part of the text with its sites, the first of which is `from` or later.
    fn copy(&mut self, part: Range<usize>, from: usize) {
        let mut at = part.start;
        let sites = self.sites;
        for (index, site) in sites.iter().enumerate().skip(from) {
            if site.at.start > part.end {
                break;
            }
            if site.at.start >= at && site.at.end <= part.end {
                self.out.push_str(&self.text[at..site.at.start]);
                self.site(site, index);
                at = site.at.end;
            }
        }
        self.out.push_str(&self.text[at..part.end]);
    }

    fn add(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn on(&self, mutant: u32) -> String {
        format!("{}({mutant})", self.probe)
    }

    /// `if on(7) { one } else if on(8) { other } else`
    fn branches(&mut self, mutants: &[(u32, String)], branch: impl Fn(&str) -> String) {
        for (id, replacement) in mutants {
            let start = self.out.len();
            let text = format!("if {} {{ {} }} else ", self.on(*id), branch(replacement));
            self.add(&text);
            self.pieces.push(Piece { at: start..self.out.len(), mutants: vec![*id] });
        }
    }

    fn site(&mut self, site: &Site, index: usize) {
        let start = self.out.len();
        let first = site.mutants[0].0;
        match &site.form {
            Form::Body => {
                for (id, value) in &site.mutants {
                    let start = self.out.len();
                    let text = format!("if {} {{ return {value}; }} ", self.on(*id));
                    self.add(&text);
                    self.pieces.push(Piece { at: start..self.out.len(), mutants: vec![*id] });
                }
                return;
            }
            Form::Compared { left, right, op } | Form::Computed { left, right, op } => {
                let by = if matches!(site.form, Form::Compared { .. }) { "&" } else { "" };
                self.add(&format!("(match ({by}("));
                self.copy(left.clone(), index + 1);
                self.add(&format!("), {by}("));
                self.copy(right.clone(), index + 1);
                self.add(")) { (__l, __r) => ");
                self.branches(&site.mutants, |op| format!("__l {op} __r"));
                self.add(&format!("{{ __l {op} __r }} }})"));
            }
            Form::Assigned { left, right, op } => {
                self.add("(match (");
                self.copy(right.clone(), index + 1);
                self.add(") { __r => ");
                for (id, replacement) in &site.mutants {
                    let text = format!("if {} {{ ", self.on(*id));
                    self.add(&text);
                    self.copy(left.clone(), index + 1);
                    self.add(&format!(" {replacement} __r }} else "));
                }
                self.add("{ ");
                self.copy(left.clone(), index + 1);
                self.add(&format!(" {op} __r }} }})"));
            }
            Form::Lazy { left, right, and } => {
                self.add("({ let __l = ");
                self.copy(left.clone(), index + 1);
                let on = self.on(first);
                self.add(&format!("; if __l {} {on} {{ ", if *and { "!=" } else { "==" }));
                self.copy(right.clone(), index + 1);
                self.add(" } else { __l } })");
            }
            Form::Unary { operand, op } => {
                self.add("(match (");
                self.copy(operand.clone(), index + 1);
                self.add(") { __x => ");
                self.branches(&site.mutants, |_| "__x".to_owned());
                self.add(&format!("{{ {op}__x }} }})"));
            }
            Form::Arm => {
                let on = self.on(first);
                self.add(&format!(" if !{on}"));
            }
            Form::Guard => {
                self.add("(");
                self.branches(&site.mutants, str::to_owned);
                self.add("{ ");
                self.copy(site.at.clone(), index + 1);
                self.add(" })");
            }
        }
        let mutants = site.mutants.iter().map(|&(id, _)| id).collect();
        self.pieces.push(Piece { at: start..self.out.len(), mutants });
    }
}
