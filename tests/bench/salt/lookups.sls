{%- set found = namespace(homes=0) %}
{%- for n in range(8000) %}
{%- if salt['pillar.get']('users:u' ~ n ~ ':home') %}{% set found.homes = found.homes + 1 %}{% endif %}
{%- endfor %}
lookups:
  test.configurable_test_state:
    - comment: found {{ found.homes }}
    - changes: False
    - result: {{ found.homes == 8000 }}
