//! What holds for every dialect.

mod parity;

use serde_json::json;

use super::Dialect;

/// Bytes that the tools of a dialect may cost an agent that is shown them.
const MAX_LISTED: usize = 7000;

#[test]
fn the_tools_of_a_dialect_cost_little_to_be_shown() {
    for dialect in Dialect::ALL {
        let listed = dialect.tools().iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "inputSchema": tool.schema()})
        });
        let size = json!(listed.collect::<Vec<_>>()).to_string().len();
        assert!(size <= MAX_LISTED, "{dialect}: {size} bytes");
    }
}

#[test]
fn no_two_dialects_have_a_tool_of_one_name() {
    for dialect in Dialect::ALL {
        for tool in dialect.tools() {
            assert_eq!(Dialect::of_tool(tool.name), Some(dialect), "{}", tool.name);
        }
    }
}
