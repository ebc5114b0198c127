# What is deployed, by itself: orch/deploy.sls applies it to a node that the load balancer has let go.
/srv/www/index.html:
  file.managed:
    - source: salt://web/index.html
    - template: jinja
    - makedirs: True

/srv/www/health.txt:
  file.managed:
    - contents: release {{ pillar['app']['release'] }}
    - makedirs: True
