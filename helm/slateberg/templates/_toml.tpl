{{/*
Renders values as TOML. Helm's function toToml writes every number with a fraction, and no setting accepts a fraction.
A table begins with its plain values. Nested tables follow under their full path.
*/}}

{{- define "slateberg.toml" -}}
{{- $path := .path -}}
{{- $table := .table -}}
{{- range $key := keys $table | sortAlpha -}}
{{- $value := index $table $key -}}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ include "slateberg.toml.key" $key }} = {{ include "slateberg.toml.value" (dict "path" (printf "%s%s" $path $key) "value" $value) }}
{{- end -}}
{{- end -}}
{{- range $key := keys $table | sortAlpha -}}
{{- $value := index $table $key -}}
{{- if kindIs "map" $value -}}
{{- $below := printf "%s%s" $path (include "slateberg.toml.key" $key) }}

[{{ $below }}]
{{- include "slateberg.toml" (dict "path" (printf "%s." $below) "table" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "slateberg.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . -}}{{ . }}{{- else -}}{{ toRawJson . }}{{- end -}}
{{- end -}}

{{/* A JSON string is a TOML string as well. */}}
{{- define "slateberg.toml.value" -}}
{{- $path := .path -}}
{{- $value := .value -}}
{{- if kindIs "slice" $value -}}
{{- $items := list -}}
{{- range $value -}}
{{- $items = append $items (include "slateberg.toml.value" (dict "path" $path "value" .)) -}}
{{- end -}}
[{{ join ", " $items }}]
{{- else if kindIs "float64" $value -}}
{{- if eq $value (floor $value) -}}{{ printf "%.0f" $value }}{{- else -}}{{ $value }}{{- end -}}
{{- else if or (kindIs "string" $value) (kindIs "bool" $value) (kindIs "int64" $value) (kindIs "int" $value) -}}
{{ toRawJson $value }}
{{- else -}}
{{- fail (printf "config.%s: no setting has a value of kind %s" $path (kindOf $value)) -}}
{{- end -}}
{{- end -}}
