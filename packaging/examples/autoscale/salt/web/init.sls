include:
  - web.app

nginx:
  pkg.installed: []
  service.running:
    - enable: True
    - reload: True
    - require:
      - sls: web.app
    - watch:
      - pkg: nginx
      - file: /etc/nginx/conf.d/app.conf

/etc/nginx/conf.d/app.conf:
  file.managed:
    - source: salt://web/app.conf
    - require:
      - pkg: nginx

# The address must be in the mine before the load balancer reads it.
address:
  module.run:
    - mine.update: []
    - require:
      - service: nginx

autoscale/ready:
  event.send:
    - require:
      - module: address

# The key is accepted, so the token is no longer needed.
/etc/salt/token:
  file.absent
