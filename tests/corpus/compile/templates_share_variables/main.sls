{% do pillar.update({'sites': ['a']}) %}
{% do pillar.sites.append('b') %}
include:
  - second
  - third
