{{- define "zinc.name" -}}
{{- if contains "zinc" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-zinc" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "zinc.labels" -}}
app.kubernetes.io/name: zinc
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* of the pods of a part: (list . "server") */ -}}
{{- define "zinc.select" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: zinc
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "zinc.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* how many replicas there can be: the gateway knows them by name */ -}}
{{- define "zinc.most" -}}
{{- if .Values.autoscaling.enabled }}{{ max .Values.autoscaling.min .Values.autoscaling.max }}{{ else }}{{ .Values.replicas }}{{ end }}
{{- end }}

{{- define "zinc.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "zinc.env" -}}
- {name: HOME, value: /var/lib/zinc}
- {name: ZINC_MODELS, value: /var/lib/zinc/models}
- {name: XDG_CACHE_HOME, value: /var/cache}
{{- with .Values.serve.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "zinc.mounts" -}}
- {name: data, mountPath: /var/lib/zinc, subPath: lib}
- {name: data, mountPath: /var/cache/zinc, subPath: cache}
- {name: tmp, mountPath: /tmp}
{{- if .Values.storage.claim }}
- {name: models, mountPath: /models, readOnly: true}
{{- end }}
{{- end }}
