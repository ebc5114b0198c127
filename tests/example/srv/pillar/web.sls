# All settings of this web server.
web:
  root: {{ grains.cwd }}/target/example/www
  fetched: {{ grains.cwd }}/target/example/fetched
  host: 127.0.0.1
  port: 18080
  # The server stops after this number of seconds, even if no step stops it.
  lifetime: 60
  sites:
    - name: index
      title: Pinch
      text: A pinch of Salt, the part that fits a small machine.
    - name: about
      title: About
      text: These pages were rendered from pillar by an orchestration.
