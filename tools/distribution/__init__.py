"""Building, checking and auditing what is distributed: `make dist`, `make dist-check`, `make sbom`, `make audit`."""
