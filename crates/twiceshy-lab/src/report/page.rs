//! Sections of plots and tables as one HTML file: no network, no script, light
//! and dark, one column on a phone.

use std::fmt::Write;

use super::marker::{COLOURS, STYLE};
use super::plot::Plot;
use super::text::{escape, percent_encode};

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What it is called.
    pub title: String,
    /// What stands below the title, a paragraph each.
    pub about: Vec<String>,
    /// What it shows.
    pub sections: Vec<Section>,
}

/// A part of a page that can be linked to.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The anchor, and the name of the table's file.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// How it came out, for the list of contents and for a badge.
    pub standing: Standing,
    /// What there is to say, each with its heading.
    pub facts: Vec<(String, String)>,
    /// What there is to see.
    pub plots: Vec<Plot>,
    /// The numbers behind it.
    pub table: Option<Sheet>,
}

/// How a section came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// There is nothing to compare with.
    #[default]
    Plain,
    /// As in the paper.
    Seen,
    /// Too few trials to tell.
    Open,
    /// Not as in the paper.
    Differs,
    /// Not all was measured.
    Unfinished,
}

/// Numbers under their headings, to read and to take along.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// A heading each column.
    pub header: Vec<String>,
    /// For people.
    pub rows: Vec<Vec<String>>,
    /// For machines.
    pub csv: String,
}

const LAYOUT: &str = "\
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem 1rem 4rem;max-width:72rem;background:var(--paper);\
color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
a{color:var(--link)}h1{font-size:1.7rem;line-height:1.2;margin:.4rem 0 .6rem}
h2{font-size:1.25rem;line-height:1.3;margin:0 0 .6rem}p{margin:.4rem 0;max-width:46rem}
nav ul{list-style:none;margin:.6rem 0;padding:0;columns:20rem;column-gap:2rem}
nav li{break-inside:avoid;padding:.2rem 0}
section{border-top:1px solid var(--line);margin-top:2.2rem;padding-top:1.4rem}
dl{margin:.4rem 0 1rem;display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}
dt{color:var(--soft)}dd{margin:0;max-width:46rem;overflow-wrap:anywhere}
.badge{font-size:.8rem;white-space:nowrap;padding:.05rem .5rem;border-radius:1rem;\
border:1px solid currentColor;color:var(--soft)}
.seen{color:var(--good)}.differs{color:var(--bad)}
.plots{display:grid;gap:1rem;\
grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.plots figure{margin:0;max-width:40rem}
.plots svg{display:block;width:100%;height:auto}
details{margin-top:.8rem}summary{cursor:pointer;color:var(--link)}
.scroll{overflow-x:auto;max-height:28rem}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .8rem .15rem 0;text-align:left;white-space:nowrap;\
border-bottom:1px solid var(--line)}
th{position:sticky;top:0;background:var(--paper)}
@media(max-width:34rem){dl{display:block}dt{margin-top:.5rem;font-size:.85rem}}
";

impl Page {
    /// The page as an HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let about = self.about.iter().map(|words| format!("<p>{}</p>\n", escape(words)));
        let sections = self.sections.iter().map(Section::html);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{COLOURS}{LAYOUT}{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n{}{}{}</body>\n</html>\n",
            about.collect::<String>(),
            self.contents(),
            sections.collect::<String>(),
        )
    }

    fn contents(&self) -> String {
        if self.sections.len() < 2 {
            return String::new();
        }
        let entries = self.sections.iter().map(|section| {
            let (id, title) = (escape(&section.id), escape(&section.title));
            format!("<li><a href=\"#{id}\">{title}</a> {}</li>\n", section.standing.badge())
        });
        format!("<nav aria-label=\"Contents\"><ul>\n{}</ul></nav>\n", entries.collect::<String>())
    }
}

impl Section {
    fn html(&self) -> String {
        let (id, title) = (escape(&self.id), escape(&self.title));
        let mut html =
            format!("<section id=\"{id}\">\n<h2>{title} {}</h2>\n", self.standing.badge());
        if !self.facts.is_empty() {
            let facts = self.facts.iter();
            let facts = facts.map(|(term, words)| {
                format!("<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(words))
            });
            write!(html, "<dl>\n{}</dl>\n", facts.collect::<String>())
                .expect("a string takes everything");
        }
        html.push_str("<div class=\"plots\">\n");
        for plot in &self.plots {
            html.push_str("<figure>");
            html.push_str(&plot.svg());
            html.push_str("</figure>\n");
        }
        html.push_str("</div>\n");
        if let Some(sheet) = &self.table {
            html.push_str(&sheet.html(&self.id));
        }
        html.push_str("</section>\n");
        html
    }
}

impl Standing {
    fn badge(self) -> &'static str {
        match self {
            Standing::Plain => "",
            Standing::Seen => "<span class=\"badge seen\">✓ as in the paper</span>",
            Standing::Open => "<span class=\"badge\">? too few trials to tell</span>",
            Standing::Differs => "<span class=\"badge differs\">≠ differs</span>",
            Standing::Unfinished => "<span class=\"badge\">… unfinished</span>",
        }
    }
}

impl Sheet {
    fn html(&self, id: &str) -> String {
        let row = |cells: &[String], tag| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(|cells| row(cells, "td")).collect();
        format!(
            "<details><summary>{} rows</summary>\n<p><a download=\"{}.csv\" \
             href=\"data:text/csv;charset=utf-8,{}\">Download them as CSV</a></p>\n\
             <div class=\"scroll\"><table>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody></table></div>\
             </details>\n",
            self.rows.len(),
            escape(id),
            percent_encode(&self.csv),
            row(&self.header, "th"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let section = |id: &str, standing| Section {
            id: id.to_string(),
            title: format!("<i>{id}</i>"),
            standing,
            facts: vec![("Source".to_string(), "A & B".to_string())],
            plots: Vec::new(),
            table: Some(Sheet {
                header: vec!["x".to_string()],
                rows: vec![vec!["<1>".to_string()]],
                csv: "x\n1\n".to_string(),
            }),
        };
        Page {
            title: "a \"title\"".to_string(),
            about: vec!["<p>".to_string()],
            sections: vec![section("acf-1", Standing::Seen), section("taf-2", Standing::Differs)],
        }
    }

    #[test]
    fn the_contents_lead_to_every_section_and_say_how_it_came_out() {
        let html = page().html();
        for (id, badge) in [("acf-1", Standing::Seen), ("taf-2", Standing::Differs)] {
            assert!(html.contains(&format!("<section id=\"{id}\">")));
            let link = format!("<a href=\"#{id}\">&lt;i&gt;{id}&lt;/i&gt;</a> {}", badge.badge());
            assert!(html.contains(&link), "{link}");
        }
    }

    #[test]
    fn all_text_is_escaped() {
        let html = page().html();
        assert!(html.contains("<title>a &quot;title&quot;</title>"));
        assert!(html.contains("<p>&lt;p&gt;</p>") && html.contains("<dd>A &amp; B</dd>"));
        assert!(html.contains("<td>&lt;1&gt;</td>") && !html.contains("<i>"));
        assert!(
            html.contains("download=\"acf-1.csv\" href=\"data:text/csv;charset=utf-8,x%0A1%0A\"")
        );
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let html = page().html();
        for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("prefers-color-scheme:dark") && html.contains("width=device-width"));
    }
}
