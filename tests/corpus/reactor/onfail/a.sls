try:
  runner.test.arg:
    - args:
      - a: 1
tell:
  runner.event.send:
    - args:
      - tag: it/failed
    - onfail:
      - runner: try
