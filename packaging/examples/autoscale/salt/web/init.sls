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

# The address is in the mine before the load balancer is told to look there.
address:
  module.run:
    - mine.update: []
    - require:
      - service: nginx

autoscale/ready:
  event.send:
    - require:
      - module: address

# It has let the node in, and is not needed any more.
/etc/salt/token:
  file.absent
