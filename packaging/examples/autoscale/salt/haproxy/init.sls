haproxy:
  pkg.installed:
    - pkgs:
      - haproxy
      - socat
  service.running:
    - enable: True
    - reload: True
    - watch:
      - file: /etc/haproxy/haproxy.cfg

/etc/haproxy/haproxy.cfg:
  file.managed:
    - source: salt://haproxy/haproxy.cfg
    - template: jinja
    - check_cmd: haproxy -c -q -f
    - require:
      - pkg: haproxy

# Keeps drained servers drained when haproxy reloads its configuration.
keep the servers' state:
  cmd.run:
    - name: /usr/local/sbin/lb save
    - onlyif: /usr/local/sbin/lb state
    - onchanges:
      - file: /etc/haproxy/haproxy.cfg
    - require:
      - file: /usr/local/sbin/lb
    - require_in:
      - service: haproxy

/usr/local/sbin/lb:
  file.managed:
    - source: salt://haproxy/lb
    - mode: '0755'
