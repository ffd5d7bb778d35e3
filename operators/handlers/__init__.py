"""kopf handlers: an event of one of our kinds goes to the observer, nothing is decided."""
