//! The live page, and what a demonstration says about it.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::info;
use twiceshy_server::{Server, Watch, serve_page};

/// Where a demonstration is shown.
pub(super) const DEMO_PAGE: &str = "127.0.0.1:6391";

/// The page, until it is stopped.
pub(super) struct Page {
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Page {
    pub(super) fn start(listener: TcpListener, server: &Arc<Server>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let watch = Arc::new(Watch::new(Arc::clone(server)));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve_page(listener, watch, async {
            let _ = stopped.await;
        }));
        info!(url = %format_args!("http://{address}/"), "page");
        Ok(Page { address, stop, task })
    }

    pub(super) async fn stop(self) {
        drop(self.stop);
        // If it panicked, that was said where it happened.
        let _ = self.task.await;
    }
}

/// Says what there is to see.
pub(super) fn invite(address: SocketAddr, page: SocketAddr) {
    let port = address.port();
    // The reader may have seen enough, as in `serve --demo | head -1`.
    let _ = writeln!(
        io::stdout(),
        "Open  http://{page}/\n\n\
         Try   redis-cli -p {port} GET user:42\n      \
         redis-cli -p {port} GET nobody\n      \
         redis-cli -p {port} TS.STATS\n\n\
         Ctrl-C stops it."
    );
}
