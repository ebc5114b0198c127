{% set site = 'a' %}
{% include 'site.sls' %}
