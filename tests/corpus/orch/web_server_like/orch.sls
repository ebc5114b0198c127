{% set sites = pillar['sites'] %}
prepare:
  salt.state:
    - tgt: 'm*'
    - sls: pages
{% for site in sites %}
check {{ site }}:
  salt.function:
    - name: file.file_exists
    - tgt: 'm*'
    - arg: ['@TMP@/{{ site }}.html']
    - require:
      - salt: prepare
    - require_in:
      - salt: done
{% endfor %}
done:
  salt.runner:
    - name: event.send
    - tag: web/done
    - data: {sites: {{ sites | json }}}
