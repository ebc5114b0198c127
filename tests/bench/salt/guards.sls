{%- for n in range(100) %}
guarded {{ n }}:
  test.nop:
    - unless: /bin/false
{%- endfor %}
