//! What the demo prints.

use anyhow::Result;

use super::session::Session;

/// Prints the title of a part.
pub fn heading(text: &str) {
    println!("\n── {text}");
}

/// Prints a command and its output.
pub async fn show_command(session: &Session, line: &str) -> Result<String> {
    println!("$ {line}");
    let output = session.shell(line).await?;
    print!("{output}");
    if !output.ends_with('\n') {
        println!();
    }
    Ok(output)
}
