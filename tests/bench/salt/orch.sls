{%- for n in range(100) %}
step {{ n }}:
  salt.state:
    - tgt: '*'
    - sls: step
{%- endfor %}
