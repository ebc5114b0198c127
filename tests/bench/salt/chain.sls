{%- for n in range(1000) %}
step {{ n }}:
  test.nop:
  {%- if n %}
    - require:
      - test: step {{ n - 1 }}
  {%- else %}
    - name: first
  {%- endif %}
{%- endfor %}
