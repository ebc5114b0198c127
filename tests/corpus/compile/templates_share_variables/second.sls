{% do pillar.sites.append('c') %}
{% do pillar.update({'more': pillar.sites}) %}
second:
  test.nop:
    - sites: {{ pillar.sites }}
