unknown:
  nosuch.state
