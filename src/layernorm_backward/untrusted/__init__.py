"""Foreign code: it may raise, never return, write outside its arrays or return results that do not fit."""
