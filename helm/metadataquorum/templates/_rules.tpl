{{- /* What the operator may do where its MetadataQuorums are: the calls that it makes, and no more. The
       tests hold the operator to these, with its own account. */ -}}
{{- define "mq.rules" -}}
- apiGroups: [metadataquorum.dev]
  resources: [metadataquorums, partitionreassignments]
  verbs: [get, list, watch]
- apiGroups: [metadataquorum.dev]
  resources: [metadataquorums/status, partitionreassignments/status]
  verbs: [patch]
# get: what no label leads to any more is read by its name.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# patch: labels that somebody has edited are put back.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# Claims are made and deleted by the StatefulSets' own controller; the operator writes on them whose they are.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch]
# delete: a ConfigMap that somebody has made immutable can't be changed back.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# create: an apply that finds nothing makes the object.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
# Not list: the operator reads Secrets of a quorum that it knows by their names, and looks for no other Secret.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# delete: spec.networkPolicy can be switched off.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# delete: spec.backup can be taken back. Jobs are made by the CronJob's own controller.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- if .Values.certManager.enabled }}
# spec.tls.issuerRef. cert-manager writes the Secrets.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch]
{{- end }}
{{- end }}

{{- /* What has no namespace, read only: whether the host or the volume of a member is gone, and whether
       there is such a storage class. */ -}}
{{- define "mq.clusterRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get, list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get, list, watch]
{{- end }}

{{- /* Which operator works: its own Lease. `create` can't be bound to a name. */ -}}
{{- define "mq.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "mq.name" . }}]
  verbs: [get, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
