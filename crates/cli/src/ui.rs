//! `fleetdex ui`: opens the web page in a browser, signed in by a link that works once.

use super::{
    api::{Api, ClientConfig},
    console::{CommandError, Console},
};

/// Opens the web page of the server.
#[derive(Clone, Debug, clap::Args)]
pub struct UiArgs {
    /// Print the link only, which works once within five minutes
    #[arg(long, env = "FLEETDEX_NO_OPEN")]
    pub no_open: bool,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Prints the link and opens it.
pub async fn ui(args: &UiArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let link = Api::new(&args.server).await?.page_link().await?;
    writeln!(console.out, "{link}")?;
    if !args.no_open
        && let Err(problem) = open::that_detached(&link)
    {
        console.warn(&format!(
            "no browser could be opened ({problem}); open this link within five minutes"
        ))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::test_server::TestServer;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: UiArgs,
    }

    #[tokio::test]
    async fn the_link_signs_in_once() {
        let server = TestServer::interpreted(Vec::new()).await;
        let args = Command::parse_from(server.words("ui", &["--no-open"])).args;
        let (done, link, err) = server
            .run(async |console: &mut Console<'_>| ui(&args, console).await)
            .await;
        assert!(done && err.is_empty(), "{err}");
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        let first = client.get(link.trim()).send().await.unwrap();
        assert_eq!(first.status(), 303);
        let cookie = first.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
        let second = client.get(link.trim()).send().await.unwrap();
        assert_eq!(second.status(), 401);
        assert!(second.text().await.unwrap().contains("was used already"));
    }
}
