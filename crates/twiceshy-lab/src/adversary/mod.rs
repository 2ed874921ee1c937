//! Players that see answers only, and the game they play.
