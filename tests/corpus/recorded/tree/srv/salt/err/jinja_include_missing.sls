{% from 'nosuch.jinja' import x %}
b:
  test.nop:
    - name: {{ x }}
