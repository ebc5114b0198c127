/etc/web.conf:
  file.managed:
    - contents: web
{% if pillar.get('broken') %}
start:
  test.fail_without_changes
{% endif %}
