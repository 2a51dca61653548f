//! The relations of an object as a small picture: what uses it on the left, what it uses on the
//! right.

use maud::{Markup, html};

/// Objects on one side of the picture; the list below it has all.
const MAX_NODES: usize = 8;
/// Sizes in the picture's own units, which are pixels at its natural size.
const NODE_WIDTH: usize = 220;
const NODE_HEIGHT: usize = 44;
const ROW: usize = 56;
const GAP: usize = 110;
/// Letters that fit into a node.
const LETTERS: usize = 28;

/// An object in the picture.
#[derive(Clone, Debug)]
pub(crate) struct GraphNode {
    /// Its kind.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// Its health; empty if it is unknown.
    pub(crate) health: String,
    /// What connects it with the object.
    pub(crate) relation: String,
    /// The address of its view, if it has one.
    pub(crate) page: Option<String>,
}

/// The picture; empty without relations.
pub(crate) fn picture(center: &GraphNode, left: &[GraphNode], right: &[GraphNode]) -> Markup {
    if left.is_empty() && right.is_empty() {
        return html! {};
    }
    let rows = left.len().max(right.len()).clamp(1, MAX_NODES + 1);
    let (height, width) = (rows * ROW, 3 * NODE_WIDTH + 2 * GAP);
    let middle = height / 2;
    html! {
        div.scroll tabindex="0" role="region" aria-label="Picture of the relations" {
            svg.graph width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) {
                (side(left, 0, NODE_WIDTH, NODE_WIDTH + GAP, middle, height))
                (side(right, 2 * (NODE_WIDTH + GAP), 2 * (NODE_WIDTH + GAP), 2 * NODE_WIDTH + GAP, middle, height))
                (node(center, NODE_WIDTH + GAP, middle - NODE_HEIGHT / 2, "center"))
            }
        }
    }
}

/// The objects of one side, at `x`, each connected from `from` to `to`, which is the edge of the
/// object in the middle.
fn side(
    nodes: &[GraphNode],
    x: usize,
    from: usize,
    to: usize,
    middle: usize,
    height: usize,
) -> Markup {
    let shown = nodes.len().min(MAX_NODES);
    let more = nodes.len() - shown;
    let slots = shown + usize::from(more > 0);
    let top = |slot: usize| (height - slots * ROW) / 2 + slot * ROW + (ROW - NODE_HEIGHT) / 2;
    html! {
        @for slot in 0..shown {
            @let y = top(slot) + NODE_HEIGHT / 2;
            path.edge d=(curve(from, y, to, middle)) {}
        }
        @for (slot, shown_node) in nodes.iter().take(shown).enumerate() {
            @let y = top(slot) + NODE_HEIGHT / 2;
            text.relation x=(if to > from { from + 6 } else { from - 6 }) y=(y + 4) text-anchor=(if to > from { "start" } else { "end" }) { (shown_node.relation) }
            (node(shown_node, x, top(slot), "other"))
        }
        @if more > 0 {
            text.more x=(x + NODE_WIDTH / 2) y=(top(shown) + NODE_HEIGHT / 2) text-anchor="middle" { (more) " more below" }
        }
    }
}

fn curve(from: usize, from_y: usize, to: usize, to_y: usize) -> String {
    let bend = usize::midpoint(from, to);
    format!("M{from} {from_y} C{bend} {from_y} {bend} {to_y} {to} {to_y}")
}

fn node(shown: &GraphNode, x: usize, y: usize, class: &str) -> Markup {
    let content = html! {
        rect.node.(class) x=(x) y=(y) width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="6" {}
        circle.dot data-health=(shown.health) cx=(x + 14) cy=(y + NODE_HEIGHT / 2) r="5" {}
        text.kind x=(x + 28) y=(y + 18) { (shortened(&shown.kind)) }
        text.name x=(x + 28) y=(y + 35) { (shortened(&shown.name)) }
    };
    let title = format!("{} {} {}", shown.kind, shown.name, shown.health);
    html! {
        @if let Some(page) = &shown.page {
            a href=(page) aria-label=(title) { (content) }
        } @else {
            g { title { (title) } (content) }
        }
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LETTERS {
        return text.to_owned();
    }
    let start: String = text.chars().take(LETTERS - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> GraphNode {
        GraphNode {
            kind: "Pod".to_owned(),
            name: name.to_owned(),
            health: "Healthy".to_owned(),
            relation: "uses".to_owned(),
            page: Some("/ui/x".to_owned()),
        }
    }

    #[test]
    fn the_picture_has_eight_objects_on_a_side_and_counts_the_others() {
        let many: Vec<GraphNode> = (0..20).map(|number| named(&format!("p{number}"))).collect();
        let html = picture(&named("center"), &many, &[named("<b>")]).into_string();
        assert_eq!(html.matches("<rect").count(), 8 + 1 + 1);
        assert!(
            html.contains("12 more below") && !html.contains("<b>"),
            "{html}"
        );
        assert!(picture(&named("alone"), &[], &[]).into_string().is_empty());
    }
}
