{%- set all = namespace(items=[]) %}
{%- for n in range(20000) %}{% set all.items = all.items + [n] %}{% endfor %}
sums:
  test.configurable_test_state:
    - comment: made {{ all.items|length }}
    - changes: False
    - result: {{ all.items|length == 20000 }}
