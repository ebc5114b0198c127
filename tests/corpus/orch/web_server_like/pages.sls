{% for site in pillar['sites'] %}
@TMP@/{{ site }}.html:
  file.managed:
    - contents: {{ site }}
{% endfor %}
