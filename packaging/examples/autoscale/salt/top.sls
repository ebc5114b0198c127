base:
  'web-asg-*':
    - web
  'G@role:loadbalancer':
    - match: compound
    - haproxy
