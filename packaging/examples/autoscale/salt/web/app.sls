# The deployed application. orch/deploy.sls applies this SLS to a node that was removed from the load balancer.
/srv/www/index.html:
  file.managed:
    - source: salt://web/index.html
    - template: jinja
    - makedirs: True

/srv/www/health.txt:
  file.managed:
    - contents: release {{ pillar['app']['release'] }}
    - makedirs: True
