{% set web = pillar['web'] %}

{{ web.root }}:
  file.directory:
    - makedirs: True

{% for site in web.sites %}
{{ web.root }}/{{ site.name }}.html:
  file.managed:
    - source: salt://web/page.html.jinja
    - template: jinja
    - context:
        site: {{ site | json }}
        sites: {{ web.sites | json }}
    - require:
      - file: {{ web.root }}
{% endfor %}

{{ web.root }}/serve.pl:
  file.managed:
    - source: salt://web/serve.pl.jinja
    - template: jinja
    - mode: '0755'
    - require:
      - file: {{ web.root }}
